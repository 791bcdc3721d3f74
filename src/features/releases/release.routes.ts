import { z } from 'zod';
import { NoBody } from '../../platform/http/file-answer.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup, type AuditNote } from '../../platform/http/route.ts';
import {
  promoteNote,
  publishNotes,
  releaseNote,
  promotionChange,
  promote,
  assertFree,
  register,
  type RegistryParts,
} from './publish-release.ts';
import { Target, Version } from './release-name.ts';
import { MAX_BYTES } from './release-files.ts';
import {
  FileParams,
  Pinnable,
  PromoteRequest,
  Promotion,
  Release,
  ReleaseKeyList,
  ReleaseQuery,
  shown,
  UploadQuery,
  VersionParams,
} from './release.schema.ts';
import {
  deleteRelease,
  type DeletionParts,
  latestRelease,
  listReleases,
  openDownload,
  pinnableVersions,
} from './release.service.ts';
import type { RateLimits } from '../../platform/cluster/rate-limits.ts';
import { clientLimit } from '../../platform/http/client-address.ts';
import type { ReleaseSync, SyncOutcome } from './release-sync.ts';

/** How often one network may use each public route: a whole office upgrades behind one address, and resumes. */
const REQUESTS = { points: 300, seconds: 60 };

export type ReleaseLimits = ReturnType<typeof releaseLimits>;

export function releaseLimits(limits: RateLimits) {
  const counted = (name: string) => clientLimit(limits, name, REQUESTS);
  return {
    latest: counted('release-latest'),
    download: counted('release-download'),
    keys: counted('release-keys'),
    installer: counted('release-installer'),
  };
}

/** Published programs run with all rights on every device, so a second factor is required and API keys are refused. */
export const PUBLISH = { scopes: ['system'], person: true, mfa: true } as const;

export interface ReleaseRouteParts {
  releases: RegistryParts & Pick<DeletionParts, 'forgetFile'>;
  isRolledOut: DeletionParts['isRolledOut'];
  releaseLimits: ReleaseLimits;
}

export const releaseRoutes = ({ releases, releaseLimits, isRolledOut }: ReleaseRouteParts): RouteGroup => ({
  name: 'Agent releases',
  description:
    'Versions of the agent and its companions. Devices upgrade to the promoted release of their platform, unless a pin, a policy or a window says otherwise.',
  routes: [
    route({
      method: 'get',
      path: '/agent-versions',
      summary: 'List releases',
      description: 'Newest first.',
      access: 'signed-in',
      query: ReleaseQuery,
      response: pageOf(Release),
      async handler({ ctx, query }) {
        const { data, pagination } = await listReleases(ctx, query);
        return { data: data.map(shown), pagination };
      },
    }),
    route({
      method: 'get',
      path: '/agent-versions/latest',
      summary: 'Read the promoted release of a platform',
      access: 'public',
      before: releaseLimits.latest,
      query: Target,
      response: Release,
      errors: ['not_found', 'rate_limited'],
      handler: async ({ ctx, query }) => shown(await latestRelease(ctx, query)),
    }),
    route({
      method: 'get',
      path: '/agent-versions/keys',
      summary: 'List the keys that sign releases',
      description:
        'A device that meets a release of a key that it does not know follows the signatures of these keys from one that it trusts.',
      access: 'public',
      before: releaseLimits.keys,
      response: ReleaseKeyList,
      errors: ['rate_limited'],
      handler: async ({ ctx }) => ({
        keys: await ctx.withSystem('list the keys that sign releases', (tx) => releases.keys.published(tx)),
      }),
    }),
    route({
      method: 'get',
      path: '/agent-versions/pinnable',
      summary: 'List the versions that can be pinned',
      access: 'signed-in',
      response: Pinnable,
      handler: ({ ctx }) => pinnableVersions(ctx),
    }),
    route({
      method: 'get',
      path: '/agent-versions/:version/download',
      summary: 'Download the file of a release',
      description:
        'From this server, with `Range`, `If-Range` and `If-None-Match` by its SHA-256 as ETag; or a redirect (302) to where it is.',
      access: 'public',
      before: releaseLimits.download,
      params: VersionParams,
      query: Target,
      response: NoBody,
      media: ['application/octet-stream'],
      errors: ['precondition_failed', 'range_not_satisfiable', 'rate_limited', 'unavailable'],
      handler: ({ ctx, params, query }) => openDownload(ctx, releases.files, { ...params, ...query }),
    }),
    route({
      method: 'put',
      path: '/agent-versions/:version/files/:component/:os/:architecture',
      summary: 'Publish a release',
      description:
        'The body is the file. It is signed here. With AGENT_AUTO_PROMOTE a stable release that is higher than the promoted one is promoted at once. The same file again changes nothing; another file needs another version.',
      access: PUBLISH,
      params: FileParams,
      query: UploadQuery,
      bodyType: 'bytes',
      bodyLimit: MAX_BYTES,
      response: Release,
      status: 201,
      errors: ['conflict', 'payload_too_large', 'request_timeout', 'storage_full'],
      async prepare({ ctx, params, bytes }) {
        const { pieces, length, sha256 } = bytes();
        await ctx.withTenant(({ tx }) => assertFree(tx, params, sha256));
        return releases.files.receive(pieces, { name: params, sha256, length });
      },
      async handler({ ctx, params, query, prepared: file }) {
        try {
          const { notes } = query;
          const { release, ...registration } = await register(ctx.tx, releases, { ...params, file, notes });
          return { ...shown(release), registration };
        } catch (error) {
          await releases.files.discard(file);
          throw error;
        }
      },
      audit: {
        action: 'agent_version.publish',
        resource: 'agent_version',
        note: ({ registration, ...release }) => publishNotes(release, registration),
      },
    }),
    route({
      method: 'post',
      path: '/agent-versions/promote',
      summary: 'Promote a version',
      description:
        'Makes a version what devices upgrade to, on every platform that it has a release for: all of them, or none.',
      access: PUBLISH,
      body: PromoteRequest,
      response: Promotion,
      errors: ['not_found', 'release_untrusted'],
      handler: ({ ctx, body }) => promote(ctx.tx, releases.keys, body),
      audit: {
        action: 'agent_version.promote',
        resource: 'agent_version',
        note: (promotion, { body }) => promoteNote(body.version, promotion),
      },
    }),
    route({
      method: 'delete',
      path: '/agent-versions/:id',
      summary: 'Delete a release',
      access: PUBLISH,
      params: IdParams,
      response: z.object({ success: z.literal(true) }),
      errors: ['conflict'],
      handler: ({ ctx, params }) =>
        deleteRelease(ctx, params.id, { forgetFile: releases.forgetFile, isRolledOut }),
      audit: {
        action: 'agent_version.delete',
        resource: 'agent_version',
        note: ({ release }) => releaseNote(release),
      },
    }),
  ],
});

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
