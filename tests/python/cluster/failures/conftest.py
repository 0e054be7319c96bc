"""Drivers in processes of their own. One that nobody kills goes on with the next test of its module:
most of the time goes into starting Spark."""

import pytest

from support.driver_process import Drive, Driver
from support.waiting import BOUND_SECONDS


@pytest.fixture(scope="module")
def lasting():
    """The driver that goes on with the next test, if there is one."""
    drivers = []
    yield drivers
    for driver in drivers:
        driver.process.stdin.close()
        code = driver.process.wait(BOUND_SECONDS)
        driver.close()
        assert code == 0, "after all that has been killed it ends as it should"


@pytest.fixture
def drive(lasting, tmp_path, tmp_path_factory, leftovers):
    """Has a program run, by a driver that is `alone` with it or by the one that goes on."""
    drives = []

    def start(program, action, alone=True):
        if alone:
            driver = Driver(tmp_path, program, action)
        else:
            if not lasting:
                lasting.append(Driver(tmp_path_factory.mktemp("driver")))
            (driver,) = lasting
            driver.tell(program, action, tmp_path)
        drives.append(Drive(tmp_path, driver))
        return drives[-1]

    yield start
    for one in drives:
        if one.driver in lasting and one.is_over:
            continue
        for processes in one.members.values():
            for process in processes:
                if process.is_running():
                    process.kill()
        if one.driver in lasting:  # The test has failed, and it may be anywhere.
            lasting.remove(one.driver)
        one.driver.close()
