/** Whether the groups of a plan can be worked off in some order. */

export interface OrderedGroup {
  id: string;
  sequence: number;
  dependsOnGroupId: string | null;
}

/**
 * The rule that the dependency of a group breaks; `undefined` where it breaks none. A group waits for its dependency and
 * for all groups of lower sequences, so a dependency of a higher sequence would wait for the group that waits for it.
 */
export function brokenDependency(groups: readonly OrderedGroup[], group: OrderedGroup): string | undefined {
  const byId = new Map(groups.map((each) => [each.id, each]));
  byId.set(group.id, group);
  const seen = new Set([group.id]);
  let before = group;
  for (let id = group.dependsOnGroupId; id !== null; ) {
    const next = byId.get(id);
    if (next === undefined) return 'must be another group of the same plan';
    if (seen.has(id)) return 'must not lead back to the group itself';
    if (next.sequence > before.sequence) {
      return 'must not have a higher sequence than the group that depends on it';
    }
    seen.add(id);
    before = next;
    id = next.dependsOnGroupId;
  }
  return undefined;
}

/** The first group whose dependency a change of another one breaks. */
export const firstBroken = (groups: readonly OrderedGroup[]): OrderedGroup | undefined =>
  groups.find((group) => brokenDependency(groups, group) !== undefined);
