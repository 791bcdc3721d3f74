import type { Context } from '../../../platform/context.ts';
import { visibleMembers } from './member.queries.ts';

export interface KnownPerson {
  name: string;
  email: string;
  roleName: string;
}

/** Present names of those of the ids that are users whom the caller can see. */
export async function knownPeople(ctx: Context, ids: readonly string[]): Promise<Map<string, KnownPerson>> {
  if (ids.length === 0) return new Map();
  const people = await visibleMembers(ctx)
    .whereRaw('p.id = any(?::uuid[])', [[...new Set(ids)]])
    .select<(KnownPerson & { id: string })[]>({
      id: 'p.id',
      name: 'p.name',
      email: 'p.email',
      roleName: 'r.name',
    });
  return new Map(people.map((member) => [member.id, member]));
}
