/** The category of an action, derived from the prefix of its name (SPEC 2.15). */
export const CATEGORIES = [
  'authentication',
  'device',
  'automation',
  'policy',
  'alert',
  'compliance',
  'organization',
  'system',
] as const;
export type Category = (typeof CATEGORIES)[number];

// Longest first, so that the most specific prefix wins.
const PREFIXES = (
  [
    ['user.login', 'authentication'],
    ['user.logout', 'authentication'],
    ['user.permission', 'authentication'],
    ['device.', 'device'],
    ['script.', 'automation'],
    ['policy.', 'policy'],
    ['automation.policy.', 'policy'],
    ['alert.', 'alert'],
    ['data.', 'compliance'],
    ['organization.', 'organization'],
  ] as const
).toSorted(([a], [b]) => b.length - a.length);

export const categoryOf = (action: string): Category =>
  PREFIXES.find(([prefix]) => action.startsWith(prefix))?.[1] ?? 'system';

/** SQL: the category of an action, by the same prefixes. */
export const categorySql = (action: string): string =>
  `(case ${PREFIXES.map(([prefix, category]) => `when starts_with(${action}, '${prefix}') then '${category}'`).join(' ')}
    else 'system' end)`;
