/** Serializes valid conditions of any depth. JSON.stringify is recursive and fails at about 2,000 nested groups. */
export function conditionsText(conditions: unknown): string {
  const parts: string[] = [];
  // A stack of what remains to be written: values, and the text between them.
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
