/** JSON of checked conditions, however deep: JSON.stringify goes into itself and ends at about 2,000 groups. */
export function conditionsText(conditions: unknown): string {
  const parts: string[] = [];
  // What is still to be written, next at the end: a value, or text that stands between values.
  const waiting: ({ value: unknown } | string)[] = [{ value: conditions }];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    if (typeof next === 'string') parts.push(next);
    else if (isGroup(next.value)) {
      const { operator, conditions: items } = next.value;
      parts.push(`{"operator":${JSON.stringify(operator)},"conditions":[`);
      waiting.push(']}');
      for (let index = items.length - 1; index >= 0; index--) {
        waiting.push({ value: items[index] });
        if (index > 0) waiting.push(',');
      }
    } else parts.push(JSON.stringify(next.value));
  }
  return parts.join('');
}

function isGroup(value: unknown): value is { operator: unknown; conditions: readonly unknown[] } {
  return (
    typeof value === 'object' && value !== null && 'conditions' in value && Array.isArray(value.conditions)
  );
}
