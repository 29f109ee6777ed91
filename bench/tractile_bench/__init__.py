"""The papers' tasks, end to end: prompts, constraints, potentials and scores, run by `tractile bench`."""

from .base import Example, Task
from .commongen import CommonGen
from .data_science.task import DataScience
from .function_calling.task import FunctionCalling
from .goal_inference.task import GoalInference
from .molecules.task import Molecules
from .spider.task import Spider

TASKS: dict[str, type[Task]] = {
    task.name: task for task in (FunctionCalling, CommonGen, Spider, GoalInference, Molecules, DataScience)
}
"""The tasks by name."""

__all__ = [
    "TASKS",
    "CommonGen",
    "DataScience",
    "Example",
    "FunctionCalling",
    "GoalInference",
    "Molecules",
    "Spider",
    "Task",
]
