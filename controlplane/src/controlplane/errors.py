"""What a person can mend: the message says what and how. The command line prints it without a traceback."""


class ControlPlaneError(Exception):
    """The control plane cannot be run."""


class BuildError(ControlPlaneError):
    """Its programs cannot be had."""
