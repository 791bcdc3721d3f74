import { z } from 'zod';
import { type AuditNote, route, type RouteGroup } from '../../../platform/http/route.ts';
import { promotionChange, releaseNote } from '../registry/audit-notes.ts';
import { PUBLISH } from '../registry/release.routes.ts';
import { Version } from '../registry/version.ts';
import type { ReleaseSync, SyncOutcome } from './release-sync.ts';

const SyncQuery = z.object({ version: Version.optional().describe('Absent: the latest stable release.') });

const Synced = z.object({
  version: z.string(),
  synced: z
    .array(z.string())
    .describe('The files that are registered, now or before, such as `agent:linux/x64`.'),
  failed: z
    .array(z.object({ file: z.string(), reason: z.string() }))
    .describe('Files that are not registered. While there is one, the version does not promote itself.'),
});

export interface SyncRouteParts {
  releaseSync: ReleaseSync;
}

export const syncRoutes = ({ releaseSync }: SyncRouteParts): RouteGroup => ({
  name: 'Agent releases from GitHub',
  description: 'Registers releases of the repository that GITHUB_RELEASES_URL names.',
  routes: [
    route({
      method: 'post',
      path: '/agent-versions/sync-github',
      summary: 'Register a release of GitHub',
      description:
        'Downloads each file of the release once, compares it with SHA256SUMS, and signs it here. It takes as long as that; the same call again goes on where files failed. With AGENT_AUTO_PROMOTE, a stable release of which every file is registered is promoted, the first time.',
      access: PUBLISH,
      query: SyncQuery,
      response: Synced,
      errors: ['not_found', 'conflict', 'rate_limited', 'unavailable', 'storage_full'],
      prepare: ({ query }) => releaseSync.fetch(query.version),
      handler: ({ ctx, prepared: fetched }) => releaseSync.register(ctx.tx, fetched),
      audit: { action: 'agent_version.sync', resource: 'agent_version', note: syncNotes },
    }),
  ],
});

/** One entry for each release that is new, and one for the whole. */
export const syncNotes = ({ version, synced, failed, added, promotion }: SyncOutcome): AuditNote[] => [
  ...added.map((release) => ({ action: 'agent_version.publish', ...releaseNote(release) })),
  {
    resourceName: version,
    details: {
      synced,
      failed: failed.map(({ file }) => file),
      ...promotion,
      before: { ...promotionChange(promotion).before, registered: 0 },
      after: { ...promotionChange(promotion).after, registered: added.length },
    },
  },
];
