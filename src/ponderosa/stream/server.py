"""A thread that answers what others submit."""

from __future__ import annotations

import itertools
import queue
import threading
from concurrent.futures import Future

from ponderosa.stream.request import Answer
from ponderosa.stream.traffic import Traffic
from ponderosa.tree import Tree


class Server:
    """Serves one stream of requests from any number of threads; ends with `close()`, or with the process."""

    def __init__(self, traffic: Traffic, waiting: int):
        self.traffic = traffic
        self.inbox: queue.Queue[tuple[Tree, Future[Answer]] | None] = queue.Queue()
        self.places = threading.Semaphore(waiting)
        self.futures: dict[int, Future[Answer]] = {}
        self.closing = False
        self.thread = threading.Thread(target=self._serve, name="ponderosa-stream", daemon=True)
        self.thread.start()

    def submit(self, request: Tree) -> Future[Answer]:
        future: Future[Answer] = Future()
        self.places.acquire()
        self.inbox.put((request, future))
        return future

    def close(self) -> None:
        self.inbox.put(None)
        self.thread.join()

    def _serve(self) -> None:
        numbers = itertools.count()
        while not self.closing or self.traffic.busy:
            self._take_in(numbers)
            try:
                answers = self.traffic.round()
            except Exception as error:  # nobody's in particular: whoever waits must hear of it
                answers = [Answer(number, error=error) for number in self.futures]
                self.traffic.forget()
            for answer in answers:
                self._deliver(self.futures.pop(answer.index), answer)

    def _take_in(self, numbers: itertools.count[int]) -> None:
        """What was submitted; waits for it only where there is nothing else to do."""
        for _ in range(0 if self.closing else self.traffic.wanted):
            try:
                item = self.inbox.get(block=not self.traffic.busy)
            except queue.Empty:
                return
            if item is None:
                self.closing = True
                return
            request, future = item
            if not future.set_running_or_notify_cancel():
                self.places.release()
                continue
            number = next(numbers)
            self.futures[number] = future
            self.traffic.ask(number, request)

    def _deliver(self, future: Future[Answer], answer: Answer) -> None:
        self.places.release()
        if answer.error is None:
            future.set_result(answer)
        else:
            future.set_exception(answer.error)
