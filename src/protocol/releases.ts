import { z } from 'zod';
import { reportedText, text } from './primitives.ts';

/** What a device has to know about releases: what it installs, whom it trusts, and what it reports of an upgrade. */

/** The components that devices upgrade by themselves. */
export const UpgradableComponent = z.enum(['agent', 'watchdog']);
export type UpgradableComponent = z.infer<typeof UpgradableComponent>;

const Sha256 = z.string().regex(/^[0-9a-f]{64}$/);

/** The capability of an agent that installs releases. */
export const UPGRADE_CAPABILITY = 'agent.upgrade';

/** What the signature of a release vouches for. */
export const ReleaseManifest = z.object({
  component: z.string(),
  version: z.string(),
  os: z.string(),
  architecture: z.string(),
  sha256: Sha256,
  size: z.number().int().positive(),
});
export type ReleaseManifest = z.infer<typeof ReleaseManifest>;

/** The text that is signed: RFC 8785, which sorts the keys. A test compares it with the package `canonicalize`. */
export const canonicalManifest = ({
  architecture,
  component,
  os,
  sha256,
  size,
  version,
}: ReleaseManifest): string => JSON.stringify({ architecture, component, os, sha256, size, version });

export const ReleaseKey = z
  .object({
    id: z.uuid(),
    publicKey: z.string().describe('Ed25519; PEM (SPKI).'),
    signedBy: z.uuid().optional().describe('The id of the key before this one.'),
    signature: z
      .string()
      .optional()
      .describe(
        'By the key before this one: Ed25519 over the canonical JSON (RFC 8785) of `id`, `publicKey` and `purpose`, which is "muster-release-key"; base64url.',
      ),
  })
  .describe('A key that signs releases.');
export type ReleaseKey = z.infer<typeof ReleaseKey>;

/** The text by which a key vouches for its successor: RFC 8785. */
export const canonicalReleaseKey = ({ id, publicKey }: Pick<ReleaseKey, 'id' | 'publicKey'>): string =>
  JSON.stringify({ id, publicKey, purpose: 'muster-release-key' });

/** More keys than an installation ever has. */
export const RELEASE_KEYS_MAX = 100;

/** A release that the device should install. */
export const Upgrade = z.object({
  component: z.string().describe('What to upgrade: `agent` or `watchdog`.'),
  version: z.string(),
  url: z.url().describe('Where to download it.'),
  sha256: Sha256.describe('The checksum of the download, in lower-case hexadecimal.'),
  size: z.number().int().positive().optional().describe('In bytes.'),
  signature: z
    .string()
    .optional()
    .describe(
      'Ed25519 over the canonical JSON (RFC 8785) of version, component, os, architecture, sha256 and size; base64url. An agent installs nothing without it.',
    ),
  keyId: z.string().optional().describe('The id of the key of the signature.'),
  pinned: z
    .boolean()
    .optional()
    .describe(
      'True where a pin names exactly this version: an agent then installs it also if it is lower than what it has run.',
    ),
  requested: z
    .boolean()
    .optional()
    .describe('True where a person has asked for it: an agent then tries it at once, also after a failure.'),
});
export type Upgrade = z.infer<typeof Upgrade>;

export const UpdatePhase = z
  .enum([
    'downloading',
    'verifying',
    'installing',
    'restarting',
    'trial',
    'completed',
    'failed',
    'rolled_back',
  ])
  .describe(
    '`trial`: the new release runs and has to prove itself; a server takes this from the reported version as well. `completed`: the trial has ended well. Only what ends the trial on the machine may report it, and never the new release by itself.',
  );
export type UpdatePhase = z.infer<typeof UpdatePhase>;

const RETRY_MAX_SECONDS = 30 * 86_400;

export const UpdateStatus = z.object({
  component: reportedText(50, 0).describe('What is being updated, such as `agent`.'),
  targetVersion: reportedText(50, 0),
  phase: UpdatePhase,
  error: reportedText(2000, 0).optional().describe('Why the update has failed.'),
  code: text(64).optional().describe('The same for programs, such as `CHECKSUM_MISMATCH`.'),
  fromVersion: reportedText(50, 0).optional().describe('What ran before.'),
  attemptId: z
    .uuid()
    .optional()
    .describe('One value for all phases of one attempt, so that a report that arrives twice counts once.'),
  retryInSeconds: z
    .number()
    .int()
    .min(0)
    .max(RETRY_MAX_SECONDS)
    .optional()
    .describe(
      'With `failed` and `rolled_back`: how long the device waits before it tries the release again. The server offers it again no earlier.',
    ),
});
export type UpdateStatus = z.infer<typeof UpdateStatus>;

/** What the watchdog says over HTTP, also when its agent cannot. */
export const WatchdogReport = z.object({
  watchdogVersion: reportedText(50),
  agentVersion: reportedText(50, 0).optional().describe('The release of the agent that the watchdog runs.'),
  agentState: z
    .enum(['running', 'restarting', 'silent', 'crash_loop', 'stopped'])
    .describe('`silent`: its event loop does not answer. `crash_loop`: it ends again and again.'),
  message: reportedText(2000, 0).optional().describe('For people: how the agent ended last.'),
  updates: z
    .array(UpdateStatus)
    .max(20)
    .describe('Phases that the agent could not report, in the order in which they happened.'),
});
export type WatchdogReport = z.infer<typeof WatchdogReport>;
