"""Function templates about numbers. `templates.py` explains the form."""

from __future__ import annotations

NUMBERS = '''
def clamp(value, low, high):  # int int5 int9
    """Keep value between low and high."""
    if value < low:
        return low
    if value > high:
        return high
    return value

def grade(score):  # int99
    """Give A from 90, B from 70, C from 50 and F below."""
    if score >= 90:
        return "A"
    if score >= 70:
        return "B"
    if score >= 50:
        return "C"
    return "F"

def is_leap(year):  # year
    """Tell whether the year has 366 days."""
    if year % 400 == 0:
        return True
    if year % 100 == 0:
        return False
    return year % 4 == 0

def gcd(a, b):  # pos pos
    """Greatest common divisor."""
    while b > 0:
        a, b = b, a % b
    return a

def power(base, exponent):  # int5 int5
    """Multiply base by itself exponent times."""
    result = 1
    for step in range(exponent):
        result = result * base
    return result

def factorial(n):  # int6
    """Product of the numbers from 1 to n."""
    result = 1
    for step in range(2, n + 1):
        result *= step
    return result

def fibonacci(n):  # int9
    """The n-th Fibonacci number, starting 0, 1."""
    first, second = 0, 1
    for step in range(n):
        first, second = second, first + second
    return first

def digit_sum(number):  # big
    """Add up the decimal digits."""
    total = 0
    while number > 0:
        total += number % 10
        number = number // 10
    return total

def count_digits(number):  # big
    """How many decimal digits the number has."""
    count = 1
    while number >= 10:
        number = number // 10
        count += 1
    return count

def is_prime(n):  # int30
    """Tell whether n has no divisors but 1 and itself."""
    if n < 2:
        return False
    for divisor in range(2, n):
        if n % divisor == 0:
            return False
    return True

def discount(price, percent):  # big int99
    """Take percent off the price, rounded down."""
    saved = price * percent // 100
    return price - saved

def with_tax(price, rate):  # big int30
    """Add rate percent to the price, rounded down."""
    tax = price * rate // 100
    return price + tax

def shipping(weight, distance):  # int30 int99
    """Costs 5 plus 2 per unit over 10, and 3 more beyond 50 away."""
    cost = 5
    if weight > 10:
        cost += (weight - 10) * 2
    if distance > 50:
        cost += 3
    return cost

def in_range(value, start, stop):  # int int5 int9
    """Tell whether start <= value < stop."""
    return value >= start and value < stop

def overlap(start_a, end_a, start_b, end_b):  # int5 int9 int5 int9
    """Length shared by two intervals, never negative."""
    start = max(start_a, start_b)
    end = min(end_a, end_b)
    if end <= start:
        return 0
    return end - start

def sign(number):  # sint
    """Minus one, zero or one."""
    if number > 0:
        return 1
    if number < 0:
        return -1
    return 0

def distance(a, b):  # sint sint
    """How far apart two numbers are."""
    if a > b:
        return a - b
    return b - a

def pages_needed(items, per_page):  # big pos
    """How many pages hold all the items."""
    full = items // per_page
    if items % per_page > 0:
        full += 1
    return full

def collatz_steps(n):  # pos
    """Steps until n becomes 1, halving or 3n + 1."""
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
        if steps > 200:
            break
    return steps

def ticket_price(age, member):  # int99 bool
    """Children under 6 are free; under 18 or from 65 on pay 5; members save 2."""
    if age < 6:
        return 0
    price = 12
    if age < 18 or age >= 65:
        price = 5
    if member:
        price -= 2
    return price

def triangle_number(n):  # int30
    """Add the numbers from 1 to n."""
    return n * (n + 1) // 2

def seconds_to_clock(seconds):  # big
    """Minutes and seconds as a pair."""
    minutes = seconds // 60
    rest = seconds % 60
    return minutes, rest

def overtime_pay(hours, wage):  # int99 int30
    """Hours over 40 are paid double."""
    if hours <= 40:
        return hours * wage
    extra = hours - 40
    return 40 * wage + extra * wage * 2

def compound(amount, rate, years):  # big int9 int5
    """Add rate percent each year, rounded down."""
    for year in range(years):
        amount += amount * rate // 100
    return amount

def can_vote(age, citizen):  # int30 bool
    """Adults of 18 and more who are citizens may vote."""
    return age >= 18 and citizen

def median_of_three(a, b, c):  # int int int
    """The middle one of three numbers."""
    low = min(a, b)
    high = max(a, b)
    if c < low:
        return low
    if c > high:
        return high
    return c

def wrap_index(index, size):  # sint pos
    """Bring an index into 0 .. size - 1, going round."""
    while index < 0:
        index += size
    return index % size

def water_state(degrees):  # sint
    """Below 1 ice, from 100 on steam, else water."""
    if degrees <= 0:
        return "ice"
    if degrees >= 100:
        return "steam"
    return "water"

def bits_set(number):  # big
    """How many ones the binary form has."""
    ones = 0
    while number:
        ones += number % 2
        number = number // 2
    return ones

def lcm(a, b):  # pos pos
    """Least common multiple."""
    multiple = a
    while multiple % b != 0:
        multiple += a
    return multiple

def round_up(value, step):  # big pos
    """The next multiple of step that is not below value."""
    rest = value % step
    if rest == 0:
        return value
    return value - rest + step

def tip(bill, people):  # big pos
    """Ten percent, and five more from 6 people on."""
    percent = 10
    if people >= 6:
        percent += 5
    return bill * percent // 100
'''
