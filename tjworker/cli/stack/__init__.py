"""The local stack: every process of the product on one machine, under one supervisor that leaves nothing behind."""
