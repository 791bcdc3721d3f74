import { z } from 'zod';
import { type Api, Refused } from './api.ts';
import { EXIT, RemoteFailure } from './profiles.ts';

/** What a user names on the command line, by its id or by what it is called. */

export const isId = (text: string): boolean => z.uuid().safeParse(text).success;

const Named = z.object({ id: z.uuid(), name: z.string() });
export type Named = z.infer<typeof Named>;

const NamedDevice = z.object({
  id: z.uuid(),
  orgId: z.uuid(),
  hostname: z.string(),
  displayName: z.string().nullable(),
  status: z.string(),
});
export type NamedDevice = z.infer<typeof NamedDevice>;

const listOf = <S extends z.ZodType>(one: S) => z.object({ data: z.array(one) });
/** The most that a page of the server has. */
const PAGE = '100';

/** The devices with this id, host name or display name. */
export async function devicesNamed(api: Api, named: string): Promise<NamedDevice[]> {
  if (isId(named)) return withId(() => api.get(`/devices/${named.toLowerCase()}`, NamedDevice));
  const { data } = await api.get('/devices', listOf(NamedDevice), { search: named, limit: PAGE });
  return called(named, data, ({ hostname, displayName }) => [hostname, displayName]);
}

export async function filtersNamed(api: Api, named: string): Promise<Named[]> {
  if (isId(named)) return withId(() => api.get(`/filters/${named.toLowerCase()}`, Named));
  const { data } = await api.get('/filters', listOf(Named), { search: named });
  return called(named, data, ({ name }) => [name]);
}

export async function groupsNamed(api: Api, named: string): Promise<Named[]> {
  if (isId(named)) return withId(() => api.get(`/groups/${named.toLowerCase()}`, Named));
  const { data } = await api.get('/groups', listOf(Named), { search: named, limit: PAGE });
  return called(named, data, ({ name }) => [name]);
}

const NamedScript = Named.extend({ timeoutSeconds: z.number() });

export async function scriptNamed(api: Api, named: string): Promise<z.infer<typeof NamedScript>> {
  if (isId(named)) return api.get(`/scripts/${named.toLowerCase()}`, NamedScript);
  const { data } = await api.get('/scripts', listOf(NamedScript), { search: named, limit: PAGE });
  return theOne(
    'script',
    named,
    called(named, data, ({ name }) => [name]),
  );
}

const NamedSite = Named.extend({ orgId: z.uuid() });

export async function siteNamed(api: Api, named: string): Promise<z.infer<typeof NamedSite>> {
  if (isId(named)) return api.get(`/orgs/sites/${named.toLowerCase()}`, NamedSite);
  const found: z.infer<typeof NamedSite>[] = [];
  const Sites = listOf(NamedSite).extend({ pagination: z.object({ total: z.number() }) });
  // The list of sites cannot be searched.
  for (let page = 1; ; page++) {
    const { data, pagination } = await api.get('/orgs/sites', Sites, { limit: PAGE, page: String(page) });
    found.push(...called(named, data, ({ name }) => [name]));
    if (data.length === 0 || page * Number(PAGE) >= pagination.total) break;
  }
  return theOne('site', named, found);
}

export const deviceNamed = async (api: Api, named: string): Promise<NamedDevice> =>
  theOne('device', named, await devicesNamed(api, named));

/** The id of a saved filter, which the user may give by its name. */
export const filterIdOf = async (api: Api, named: string): Promise<string> =>
  isId(named) ? named.toLowerCase() : theOne('filter', named, await filtersNamed(api, named)).id;

/** None if there is no such record, or none that the key may see. */
async function withId<T>(read: () => Promise<T>): Promise<T[]> {
  try {
    return [await read()];
  } catch (error) {
    if (error instanceof Refused && error.code === 'NOT_FOUND') return [];
    throw error;
  }
}

/** Those that are called exactly so; if there are none, those that are in another case. Pure. */
function called<T>(named: string, list: readonly T[], namesOf: (one: T) => (string | null)[]): T[] {
  const exact = list.filter((one) => namesOf(one).includes(named));
  if (exact.length > 0) return exact;
  const wanted = named.toLowerCase();
  return list.filter((one) => namesOf(one).some((name) => name?.toLowerCase() === wanted));
}

export function theOne<T extends { id: string }>(kind: string, named: string, found: readonly T[]): T {
  const [first, ...others] = found;
  if (first === undefined) {
    throw new RemoteFailure(EXIT.failed, `There is no ${kind} ${named} that you may see.`);
  }
  if (others.length > 0) {
    throw new RemoteFailure(
      EXIT.failed,
      `${found.length} ${kind}s are called ${named}. Give the id of one: ${found.map(({ id }) => id).join(', ')}.`,
    );
  }
  return first;
}
