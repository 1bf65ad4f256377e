"""`python -m apportion.engine` is the command `apportion`."""

import sys

from apportion.engine.cli.main import main

sys.exit(main())
