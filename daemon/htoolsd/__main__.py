"""``python -m htoolsd``"""

import sys

from htoolsd.process.service import main

sys.exit(main())
