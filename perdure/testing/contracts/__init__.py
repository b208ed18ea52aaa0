"""What every adapter of a port must do, as suites to run over adapters of one's own.

Subclass a suite in a test module and give it a fixture:

```python
class TestMyLeases(LeasesContract):
    @pytest.fixture
    def subject(self) -> LeasesSubject: ...
```

Each test is a method whose docstring says what it holds. The suites import no test framework.
"""

from perdure.testing.contracts.clock import ClockContract, ClockSubject
from perdure.testing.contracts.event_store import EventStoreContract
from perdure.testing.contracts.leases import LeasesContract, LeasesSubject

__all__ = ["ClockContract", "ClockSubject", "EventStoreContract", "LeasesContract", "LeasesSubject"]
