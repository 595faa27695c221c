"""Answers of the pure parts to thousands of drawn questions, as they were when somebody last looked.

Tables and sentences say what is right. These say only that nothing else has changed: who changes an answer on purpose
writes it down anew (`python -m tests.recorded`), and reads which ones changed.
"""
