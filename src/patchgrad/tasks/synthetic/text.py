"""Function templates about text and records. `templates.py` explains the form."""

from __future__ import annotations

TEXT = '''
def count_vowels(text):  # word
    """How many vowels the text has."""
    count = 0
    for letter in text:
        if letter in "aeiou":
            count += 1
    return count

def is_palindrome(text):  # pal
    """Tell whether the text reads the same backwards."""
    left, right = 0, len(text) - 1
    while left < right:
        if text[left] != text[right]:
            return False
        left += 1
        right -= 1
    return True

def capitalize_words(text):  # line
    """Each word with a capital."""
    words = []
    for word in text.split():
        words.append(word[0].upper() + word[1:])
    return " ".join(words)

def initials(name):  # line
    """First letters of the words, in capitals."""
    letters = [part[0] for part in name.split()]
    return "".join(letters).upper()

def longest_word(words):  # words
    """The longest word, the first of equals."""
    best = ""
    for word in words:
        if len(word) > len(best):
            best = word
    return best

def count_words(text, size):  # line int5
    """How many words have at least size letters."""
    count = 0
    for word in text.split():
        if len(word) >= size:
            count += 1
    return count

def shorten(text, limit):  # line int9
    """Cut after limit letters and add dots."""
    if len(text) <= limit:
        return text
    return text[:limit] + "..."

def repeat(text, times, separator):  # word int5 sep
    """The text times times with separators between."""
    return separator.join([text] * times)

def compress(text):  # runs
    """Write aaab as a3b1."""
    result = ""
    index = 0
    while index < len(text):
        end = index
        while end < len(text) and text[end] == text[index]:
            end += 1
        result += text[index] + str(end - index)
        index = end
    return result

def common_prefix(first, second):  # pre pre
    """The beginning that both share."""
    length = 0
    while length < len(first) and length < len(second):
        if first[length] != second[length]:
            break
        length += 1
    return first[:length]

def caesar(text, shift):  # word int5
    """Move each letter by shift places in the alphabet."""
    result = ""
    for letter in text:
        place = (ord(letter) - 97 + shift) % 26
        result += chr(place + 97)
    return result

def letter_counts(text):  # runs
    """How often each letter occurs."""
    counts = {}
    for letter in text:
        counts[letter] = counts.get(letter, 0) + 1
    return counts

def pad(text, width):  # word int9
    """Fill with spaces on the left up to width."""
    missing = width - len(text)
    if missing <= 0:
        return text
    return " " * missing + text

def center(text, width):  # word int9
    """Stars on both sides, more of them on the right."""
    missing = max(0, width - len(text))
    left = missing // 2
    right = missing - left
    return "*" * left + text + "*" * right

def is_valid_name(name):  # word
    """From 3 to 6 letters, not starting with x."""
    if len(name) < 3 or len(name) > 6:
        return False
    return name[0] != "x"

def hamming(left, right):  # bstr bstr
    """How many places differ."""
    differing = 0
    for a, b in zip(left, right):
        if a != b:
            differing += 1
    return differing

def word_at(text, position):  # line int3
    """The word at a position, empty beyond the end."""
    words = text.split()
    if position >= len(words):
        return ""
    return words[position]

def swap_ends(text):  # word
    """First and last letter change places."""
    if len(text) < 2:
        return text
    return text[-1] + text[1:-1] + text[0]

def stock_value(prices, counts):  # pricemap countmap
    """Price times count over all products."""
    value = 0
    for product in counts:
        value += prices.get(product, 0) * counts[product]
    return value

def low_stock(counts, limit):  # countmap int5
    """Names of products with fewer than limit pieces."""
    names = []
    for product in sorted(counts):
        if counts[product] < limit:
            names.append(product)
    return names

def group_by_length(words):  # words
    """Map each length to its words."""
    groups = {}
    for word in words:
        groups.setdefault(len(word), []).append(word)
    return groups

def winner(points):  # countmap
    """The name with most points, the earliest of equals."""
    best = None
    for name in sorted(points):
        if best is None or points[name] > points[best]:
            best = name
    return best

def merge_counts(left, right):  # countmap countmap
    """Add up two maps of counts."""
    merged = dict(left)
    for name, count in right.items():
        merged[name] = merged.get(name, 0) + count
    return merged

def invert(counts):  # countmap
    """Map each count to the sorted names that have it."""
    names = {}
    for name in sorted(counts):
        names.setdefault(counts[name], []).append(name)
    return names

def total_above(counts, limit):  # countmap int5
    """Sum of the counts over limit."""
    total = 0
    for count in counts.values():
        if count > limit:
            total += count
    return total

def censor(text, word):  # line2 word3
    """Replace the word by stars."""
    stars = "*" * len(word)
    parts = []
    for part in text.split():
        if part == word:
            parts.append(stars)
        else:
            parts.append(part)
    return " ".join(parts)

def snake(text):  # camel
    """Write someName as some_name."""
    result = ""
    for letter in text:
        if letter.isupper():
            result += "_" + letter.lower()
        else:
            result += letter
    return result

def has_digit(text):  # alnum
    """Tell whether any character is a digit."""
    for letter in text:
        if letter >= "0" and letter <= "9":
            return True
    return False

def parse_pairs(text):  # pairs
    """Read a=1,b=2 into a map."""
    result = {}
    for part in text.split(","):
        name, value = part.split("=")
        result[name] = int(value)
    return result

def every_second(text):  # word
    """Letters at positions 0, 2, 4 and so on."""
    return text[0::2]

def depth(text):  # parens
    """How deep the brackets are nested at most."""
    level = 0
    deepest = 0
    for letter in text:
        if letter == "(":
            level += 1
            deepest = max(deepest, level)
        elif letter == ")":
            level -= 1
    return deepest

def strength(password):  # alnum
    """One point each for length 8, a digit and a letter."""
    points = 0
    if len(password) >= 8:
        points += 1
    if any(sign.isdigit() for sign in password):
        points += 1
    if any(sign.isalpha() for sign in password):
        points += 1
    return points
'''
