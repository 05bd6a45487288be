"""Function templates about lists of numbers. `templates.py` explains the form."""

from __future__ import annotations

LISTS = '''
def total(items):  # ints
    """Add up all items."""
    result = 0
    for item in items:
        result += item
    return result

def largest(items):  # ints1
    """The largest item."""
    best = items[0]
    for item in items:
        if item > best:
            best = item
    return best

def smallest(items):  # ints1
    """The smallest item."""
    best = items[0]
    for item in items[1:]:
        if item < best:
            best = item
    return best

def count_equal(items, target):  # ints int5
    """How many items equal target."""
    count = 0
    for item in items:
        if item == target:
            count += 1
    return count

def index_of(items, target):  # ints int5
    """Position of target, or -1."""
    for index in range(len(items)):
        if items[index] == target:
            return index
    return -1

def running_total(items):  # ints
    """List of the sums so far."""
    result = []
    total = 0
    for item in items:
        total += item
        result.append(total)
    return result

def differences(items):  # ints1
    """Each item minus the one before it."""
    result = []
    for index in range(1, len(items)):
        result.append(items[index] - items[index - 1])
    return result

def is_sorted(items):  # ints
    """Tell whether no item is below the one before it."""
    for index in range(1, len(items)):
        if items[index] < items[index - 1]:
            return False
    return True

def average(items):  # ints
    """Mean rounded down, 0 for an empty list."""
    if len(items) == 0:
        return 0
    return sum(items) // len(items)

def without_duplicates(items):  # ints
    """Each item once, in order of first sight."""
    seen = []
    for item in items:
        if item not in seen:
            seen.append(item)
    return seen

def positives(items):  # sints
    """Only the items above zero."""
    return [item for item in items if item > 0]

def count_even(items):  # ints
    """How many items are even."""
    count = 0
    for item in items:
        if item % 2 == 0:
            count += 1
    return count

def second_largest(items):  # ints2
    """The item next to the largest."""
    ordered = sorted(items)
    return ordered[-2]

def value_range(items):  # ints1
    """Largest minus smallest."""
    return max(items) - min(items)

def rotate(items, steps):  # ints1 int5
    """Move the first steps items to the end."""
    steps = steps % len(items)
    return items[steps:] + items[:steps]

def chunks(items, size):  # ints pos
    """Split into lists of size items."""
    result = []
    for start in range(0, len(items), size):
        result.append(items[start:start + size])
    return result

def dot(left, right):  # ints4 ints4
    """Sum of the products of pairs."""
    total = 0
    for index in range(len(left)):
        total += left[index] * right[index]
    return total

def merge(left, right):  # sorted sorted
    """Merge two sorted lists into one."""
    result = []
    i, j = 0, 0
    while i < len(left) and j < len(right):
        if left[i] <= right[j]:
            result.append(left[i])
            i += 1
        else:
            result.append(right[j])
            j += 1
    return result + left[i:] + right[j:]

def peak_count(items):  # ints
    """How many items are above both neighbours."""
    peaks = 0
    for index in range(1, len(items) - 1):
        if items[index] > items[index - 1] and items[index] > items[index + 1]:
            peaks += 1
    return peaks

def longest_run(items):  # bits
    """Length of the longest run of equal items."""
    best = 0
    run = 0
    previous = None
    for item in items:
        if item == previous:
            run += 1
        else:
            run = 1
        previous = item
        best = max(best, run)
    return best

def take_while_small(items, limit):  # ints int9
    """Items up to the first one over limit."""
    taken = []
    for item in items:
        if item > limit:
            break
        taken.append(item)
    return taken

def last_index(items, target):  # bits bit
    """Last position of target, or -1."""
    found = -1
    for index, item in enumerate(items):
        if item == target:
            found = index
    return found

def alternate_sum(items):  # ints
    """First minus second plus third minus fourth."""
    total = 0
    for index, item in enumerate(items):
        if index % 2 == 0:
            total += item
        else:
            total -= item
    return total

def bounded_sum(items, limit):  # ints int30
    """Add items until the sum would pass limit."""
    total = 0
    for item in items:
        if total + item > limit:
            break
        total += item
    return total

def between(items, low, high):  # ints int3 int9
    """Items from low to high, both included."""
    kept = []
    for item in items:
        if low <= item <= high:
            kept.append(item)
    return kept

def best_profit(prices):  # ints1
    """Best gain from buying once and selling later."""
    lowest = prices[0]
    profit = 0
    for price in prices:
        if price < lowest:
            lowest = price
        if price - lowest > profit:
            profit = price - lowest
    return profit

def binary_search(items, target):  # sorted int9
    """Tell whether target is in the sorted items."""
    low, high = 0, len(items) - 1
    while low <= high:
        middle = (low + high) // 2
        if items[middle] == target:
            return True
        if items[middle] < target:
            low = middle + 1
        else:
            high = middle - 1
    return False

def moving_sum(items, width):  # ints int3
    """Sums of width neighbours."""
    sums = []
    for start in range(len(items) - width + 1):
        sums.append(sum(items[start:start + width]))
    return sums

def pairs_with_sum(items, target):  # ints int9
    """How many pairs add up to target."""
    pairs = 0
    for i in range(len(items)):
        for j in range(i + 1, len(items)):
            if items[i] + items[j] == target:
                pairs += 1
    return pairs

def split_at(items, limit):  # ints int5
    """Two lists: up to limit, and above it."""
    lower = []
    upper = []
    for item in items:
        if item <= limit:
            lower.append(item)
        else:
            upper.append(item)
    return lower, upper

def balance(deposits, withdrawals):  # ints ints
    """Deposits minus withdrawals, never below zero."""
    saldo = sum(deposits) - sum(withdrawals)
    if saldo < 0:
        return 0
    return saldo

def top(items, n):  # ints int3
    """The n largest items, largest first."""
    ordered = sorted(items, reverse=True)
    return ordered[:n]

def insert_sorted(items, value):  # sorted int9
    """Insert value before the first larger item."""
    position = 0
    while position < len(items) and items[position] <= value:
        position += 1
    return items[:position] + [value] + items[position:]

def weighted_mean(values, weights):  # ints4 pints4
    """Mean with weights, rounded down."""
    weight = sum(weights)
    amount = 0
    for value, share in zip(values, weights):
        amount += value * share
    return amount // weight

def zero_crossings(items):  # sints
    """How often the sign changes between neighbours."""
    changes = 0
    for a, b in zip(items, items[1:]):
        if a * b < 0:
            changes += 1
    return changes
'''
