/** Conditions as people write them. */

export const of = (field: string, operator: string, value?: unknown) => ({
  field,
  operator,
  ...(value === undefined ? {} : { value }),
});
export const all = (...conditions: unknown[]) => ({ operator: 'AND', conditions });
export const LINUX = all(of('osType', 'equals', 'linux'));
