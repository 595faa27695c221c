"""What write access to Redis is worth: every key there is, poisoned record by record, under jobs that live."""
