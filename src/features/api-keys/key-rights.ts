import { holds } from '../../platform/context.ts';

/** What both sets grant: each entry of the one that the other covers, be it by `resource:*` or `*:*`. */
export function commonPermissions(a: Iterable<string>, b: Iterable<string>): Set<string> {
  const [left, right] = [new Set(a), new Set(b)];
  return new Set([
    ...[...left].filter((permission) => holds(right, permission)),
    ...[...right].filter((permission) => holds(left, permission)),
  ]);
}
