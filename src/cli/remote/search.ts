import { z } from 'zod';
import type { CommandIo } from '../io.ts';
import { apiOf } from './api.ts';
import { createOutput, table } from './output.ts';
import { profileNamed } from './profiles.ts';

/** `muster search`: what the search of the dashboard finds. */

export interface SearchOptions {
  limit: number;
  profile?: string;
  json?: boolean;
}

/** Kinds that a newer server finds are shown under the name that it gives them. */
const Found = z.object({
  results: z.array(
    z
      .object({
        id: z.string(),
        type: z.string(),
        title: z.string(),
        description: z.string().optional(),
        href: z.string().optional(),
      })
      .loose(),
  ),
});

const KINDS: Readonly<Record<string, string>> = {
  devices: 'device',
  users: 'person',
  sites: 'site',
  organizations: 'organization',
  groups: 'group',
  filters: 'filter',
  scripts: 'script',
  alerts: 'alert',
  settings: 'page',
};

export async function search(io: CommandIo, text: string, options: SearchOptions): Promise<number> {
  const output = createOutput(io, options);
  const api = apiOf(await profileNamed(io, options.profile));
  const { results } = await api.get('/search', Found, { q: text, limit: String(options.limit) });
  if (output.isJson) {
    for (const result of results) output.json(result);
    return 0;
  }
  const rows = results.map(({ id, type, title, description = '', href }) => [
    KINDS[type] ?? type,
    title,
    href ?? id,
    description,
  ]);
  if (rows.length > 0) {
    for (const line of table(['KIND', 'NAME', 'ID', 'MATCHED'], rows, output.width)) output.line(line);
  }
  const more =
    results.length < options.limit ? '' : ', and there may be more: narrow the text, or raise --limit';
  output.remark(`${rows.length === 1 ? '1 result' : `${rows.length} results`}${more}`);
  return 0;
}
