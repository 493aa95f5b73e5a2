"""Shared parts of both group protocols: conversion, offsets, descriptions, the group coordinator."""
