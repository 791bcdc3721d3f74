import type { Context } from '../../../platform/context.ts';
import { visiblePeople } from './member.queries.ts';

export interface KnownPerson {
  name: string;
  email: string;
  roleName: string;
}

/** Those of the ids that are people whom the caller may see, as they are called at present. */
export async function knownPeople(ctx: Context, ids: readonly string[]): Promise<Map<string, KnownPerson>> {
  if (ids.length === 0) return new Map();
  const people = await visiblePeople(ctx)
    .whereRaw('p.id = any(?::uuid[])', [[...new Set(ids)]])
    .select<(KnownPerson & { id: string })[]>({
      id: 'p.id',
      name: 'p.name',
      email: 'p.email',
      roleName: 'r.name',
    });
  return new Map(people.map((person) => [person.id, person]));
}
