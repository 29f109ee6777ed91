"""The two domains of Planetarium (Zuo et al. 2024), for data that comes without domain files."""

BLOCKSWORLD = """
(define (domain blocksworld)
  (:requirements :strips)
  (:predicates (arm-empty) (clear ?x) (on-table ?x) (holding ?x) (on ?x ?y))
  (:action pickup :parameters (?x)
    :precondition (and (arm-empty) (clear ?x) (on-table ?x))
    :effect (and (holding ?x) (not (arm-empty)) (not (clear ?x)) (not (on-table ?x))))
  (:action putdown :parameters (?x)
    :precondition (holding ?x)
    :effect (and (arm-empty) (clear ?x) (on-table ?x) (not (holding ?x))))
  (:action unstack :parameters (?x ?y)
    :precondition (and (arm-empty) (clear ?x) (on ?x ?y))
    :effect (and (holding ?x) (clear ?y) (not (arm-empty)) (not (clear ?x)) (not (on ?x ?y))))
  (:action stack :parameters (?x ?y)
    :precondition (and (holding ?x) (clear ?y))
    :effect (and (arm-empty) (clear ?x) (on ?x ?y) (not (holding ?x)) (not (clear ?y)))))
"""
GRIPPER = """
(define (domain gripper)
  (:requirements :strips)
  (:predicates (room ?r) (ball ?b) (gripper ?g) (at-robby ?r) (at ?b ?r) (free ?g) (carry ?b ?g))
  (:action move :parameters (?from ?to)
    :precondition (and (room ?from) (room ?to) (at-robby ?from))
    :effect (and (at-robby ?to) (not (at-robby ?from))))
  (:action pick :parameters (?b ?r ?g)
    :precondition (and (ball ?b) (room ?r) (gripper ?g) (at-robby ?r) (at ?b ?r) (free ?g))
    :effect (and (carry ?b ?g) (not (at ?b ?r)) (not (free ?g))))
  (:action drop :parameters (?b ?r ?g)
    :precondition (and (ball ?b) (room ?r) (gripper ?g) (at-robby ?r) (carry ?b ?g))
    :effect (and (at ?b ?r) (free ?g) (not (carry ?b ?g)))))
"""
