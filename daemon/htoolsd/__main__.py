"""``python -m htoolsd``"""

import sys

from htoolsd.service import main

sys.exit(main())
