import { z } from 'zod';
import { text, Timestamp } from '../../platform/http/fields.ts';
import { PageQuery } from '../../platform/http/pagination.ts';
import { RELEASE_KEYS_MAX, ReleaseKey } from '../../protocol/index.ts';
import type { AgentRelease } from './release.model.ts';
import { Architecture, Component, OperatingSystem, Target, Version } from './release-name.ts';

export const Release = z
  .object({
    id: z.uuid(),
    ...Target.shape,
    version: z.string(),
    source: z.enum(['github', 'local']).describe('Where a download comes from: GitHub, or this server.'),
    size: z.number().int().describe('Bytes.'),
    sha256: z.string(),
    signedBy: z.uuid().describe('Id of the key of the signature.'),
    signature: z
      .string()
      .describe(
        'Ed25519 over the canonical JSON (RFC 8785) of version, component, os, architecture, sha256 and size; base64url.',
      ),
    notes: z.string().nullable(),
    isPrerelease: z.boolean(),
    promoted: z.boolean().describe('Whether this is what devices of its platform upgrade to.'),
    createdAt: Timestamp,
  })
  .meta({ id: 'AgentRelease' });

/** A release as answers show it. */
export const shown = ({ keyId: signedBy, ...release }: AgentRelease) => ({ ...release, signedBy });

export const ReleaseKeyList = z.object({
  keys: z.array(ReleaseKey).max(RELEASE_KEYS_MAX).describe('Oldest first.'),
});

export const ReleaseQuery = PageQuery.extend({
  component: Component.optional(),
  os: OperatingSystem.optional(),
  architecture: Architecture.optional(),
});
export type ReleaseQuery = z.infer<typeof ReleaseQuery>;

export const VersionParams = z.object({ version: Version });
export const FileParams = Target.extend({ version: Version });

export const UploadQuery = z.object({ notes: text(2000).optional() });

export const PromoteRequest = z.strictObject({
  version: Version,
  component: Component.optional().describe('Absent: every component that has this version.'),
});
export type PromoteRequest = z.infer<typeof PromoteRequest>;

const PromotionTarget = Target.extend({ version: z.string() });
export const Promotion = z.object({
  promoted: z.array(PromotionTarget),
  demoted: z.array(PromotionTarget).describe('The versions that were promoted on these platforms before.'),
});

const PinnableVersions = z.object({
  versions: z.array(z.string()).describe('Highest first.'),
  promoted: z
    .string()
    .nullable()
    .describe(
      'The version that `latest` names; the highest one if platforms differ; null if nothing is promoted.',
    ),
});
export const Pinnable = z.object({
  components: z.object({ agent: PinnableVersions, watchdog: PinnableVersions }),
});
