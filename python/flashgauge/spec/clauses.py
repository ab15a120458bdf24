"""The clauses of PTS 2.0.1 that the code claims to implement, each with an id that tests name.

A test says which clauses it covers with `@pytest.mark.clause("7.2")`; test_tidy.py fails when one has no test.
"""

CLAUSES: dict[str, str] = {
    "2.1.1": "ActiveRange restricts the LBAs accessed",
    "2.1.24": "steady state: data excursion <= 20 %, slope excursion <= 10 % of the average",
    "2.4.1": "capacities and rates in base 10, transfer sizes in base 2",
    "3.2": "purge before each test, its method or absence reported",
    "3.5": "random data pattern",
    "3.6": "same thread count and OIO per thread in all steps",
    "3.7": "cache state set and reported",
    "4": "pre-conditioning and test run without interruption",
    "5": "common reporting requirements",
    "6.9": "steps follow one another immediately",
    "6.rng": "random LBAs: seedable, at least 48 bits, uniform",
    "7.2": "IOPS pseudo code: order, nesting, three tracking variables, 25 rounds at most",
    "7.3.3": "steady state convergence report",
    "7.3.4": "steady state verification figures",
    "7.3.5": "measurement window plots, one for each tracking variable",
    "7.3.6.1": "tabular data: average of five rounds for each test point",
    "7.3.6.2": "measurement plot, 2-D",
    "7.3.6.3": "measurement plot, 3-D",
    "7.3.6.4": "secondary metrics",
    "A": "report header on each page",
}
