"""`python -m pykafka2.cli` is `pykafka2`."""

import sys

from pykafka2.cli.entry import main

sys.exit(main())
