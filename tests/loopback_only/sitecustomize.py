"""What Python imports first in every process that a test starts."""

from loopback_only import refuse_others

refuse_others()
