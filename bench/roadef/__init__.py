"""The machine reassignment problem of the ROADEF/EURO challenge 2012, solved by our search of places.

Shared with the tools are the strategies: ``annealing`` and ``tabu_search`` of
:mod:`ganeti_htools.engine.balancing`. They ask a problem by two protocols. The rules here are the challenge's
own; limits and costs are data (:mod:`bench.roadef.terms`). Not shared are the turns of the strategies, the
rules of nodes, and ways of instances; and the tools have nothing like the parts that HiGHS solves here.
"""
