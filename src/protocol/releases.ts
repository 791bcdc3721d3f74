import { z } from 'zod';
import { reportedText, text } from './primitives.ts';

/**
 * How long a device waits before it retries a release that failed to install. Device and server use the same rule, so
 * they always agree on the next attempt.
 */

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const LASTING_WAITS_MS = [HOUR_MS, 6 * HOUR_MS, 24 * HOUR_MS];

/**
 * @param failure.count  how often the release has failed in a row, this failure included
 * @param failure.isTemporary  the cause may resolve itself, such as a full disk: the first retry comes with the next
 * heartbeat
 */
export function waitAfterFailure({ count, isTemporary }: { count: number; isTemporary: boolean }): number {
  if (isTemporary) return count === 1 ? 0 : Math.min(HOUR_MS, MINUTE_MS * 2 ** Math.min(count - 2, 10));
  return LASTING_WAITS_MS[Math.min(count, LASTING_WAITS_MS.length) - 1] ?? HOUR_MS;
}

const LASTING = [
  'CHECKSUM_MISMATCH',
  'SIZE_MISMATCH',
  'SIGNATURE_INVALID',
  'SIGNATURE_MISSING',
  'UNKNOWN_KEY',
  'UNKNOWN_COMPONENT',
  'WRONG_COMPONENT',
  'WRONG_PLATFORM',
  'DOWNGRADE',
  'INVALID_OFFER',
  'INSECURE_URL',
  'TOO_LARGE',
];

/** Whether an error code means a fault of the release itself, which is permanent. */
export const isLastingFailure = (code: string): boolean => LASTING.includes(code);

/** The component, operating system and processor of a release file. */

export const ReleaseComponent = z.enum(['agent', 'watchdog', 'helper', 'backup']);
export type ReleaseComponent = z.infer<typeof ReleaseComponent>;

export const ReleaseSystem = z.enum(['linux', 'windows', 'macos']);
export type ReleaseSystem = z.infer<typeof ReleaseSystem>;

export const ReleaseArchitecture = z.enum(['x64', 'arm64']);
export type ReleaseArchitecture = z.infer<typeof ReleaseArchitecture>;

export const ReleaseTarget = z.object({
  component: ReleaseComponent,
  os: ReleaseSystem,
  architecture: ReleaseArchitecture,
});
export type ReleaseTarget = z.infer<typeof ReleaseTarget>;

const FILE_NAME = /^muster-(?<component>[a-z]+)-(?<os>[a-z]+)-(?<architecture>[a-z0-9]+)(?:\.exe|\.cjs)?$/;

/**
 * The target of a file, from the name that `npm run build:agent` gives it, such as `muster-agent-linux-x64.cjs`;
 * `undefined` for any other name.
 */
export const releaseTargetOf = (fileName: string): ReleaseTarget | undefined =>
  ReleaseTarget.safeParse(FILE_NAME.exec(fileName)?.groups).data;

/** Release data for devices: what to install, which keys to trust, and how to report an upgrade. */

/** The components that devices can upgrade. */
export const UpgradableComponent = z.enum(['agent', 'watchdog']);
export type UpgradableComponent = z.infer<typeof UpgradableComponent>;

const Sha256 = z.string().regex(/^[0-9a-f]{64}$/);

/** The capability of an agent that installs releases. */
export const UPGRADE_CAPABILITY = 'agent.upgrade';

/** The fields that the signature of a release covers. */
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
    signedBy: z.uuid().optional().describe('The id of the previous key.'),
    signature: z
      .string()
      .optional()
      .describe(
        'The signature of the previous key: Ed25519 over the canonical JSON (RFC 8785) of `id`, `publicKey` and `purpose`, which is "muster-release-key"; base64url.',
      ),
  })
  .describe('A key that signs releases.');
export type ReleaseKey = z.infer<typeof ReleaseKey>;

/** The text that a key signs to vouch for its successor: RFC 8785. */
export const canonicalReleaseKey = ({ id, publicKey }: Pick<ReleaseKey, 'id' | 'publicKey'>): string =>
  JSON.stringify({ id, publicKey, purpose: 'muster-release-key' });

/** More keys than an installation will ever have. */
export const RELEASE_KEYS_MAX = 100;

/** A release that the device should install. */
export const Upgrade = z.object({
  component: z.string().describe('What to upgrade: `agent` or `watchdog`.'),
  version: z.string(),
  url: z.url().describe('The address of the download.'),
  sha256: Sha256.describe('The checksum of the download, in lower-case hexadecimal.'),
  size: z.number().int().positive().optional().describe('In bytes.'),
  signature: z
    .string()
    .optional()
    .describe(
      'Ed25519 over the canonical JSON (RFC 8785) of version, component, os, architecture, sha256 and size; base64url. An agent installs nothing without it.',
    ),
  keyId: z.string().optional().describe('The id of the key that made the signature.'),
  pinned: z
    .boolean()
    .optional()
    .describe(
      'True if a pin names exactly this version: an agent then installs it even if it is lower than one that it has run.',
    ),
  requested: z
    .boolean()
    .optional()
    .describe('True if a user has requested it: an agent then tries it at once, even after a failure.'),
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
    '`trial`: the new release runs and must prove itself; a server also infers this from the reported version. `completed`: the trial has ended well. Only the program that ends the trial on the machine may report it, never the new release itself.',
  );
export type UpdatePhase = z.infer<typeof UpdatePhase>;

const RETRY_MAX_SECONDS = 30 * 86_400;

export const UpdateStatus = z.object({
  component: reportedText(50, 0).describe('The component that is updated, such as `agent`.'),
  targetVersion: reportedText(50, 0),
  phase: UpdatePhase,
  error: reportedText(2000, 0).optional().describe('Why the update has failed.'),
  code: text(64).optional().describe('The error code, such as `CHECKSUM_MISMATCH`.'),
  fromVersion: reportedText(50, 0).optional().describe('The version that ran before.'),
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

/** A report of the watchdog over HTTP, which works even if its agent does not run. */
export const WatchdogReport = z.object({
  watchdogVersion: reportedText(50),
  agentVersion: reportedText(50, 0).optional().describe('The release of the agent that the watchdog runs.'),
  agentState: z
    .enum(['running', 'restarting', 'silent', 'crash_loop', 'stopped'])
    .describe('`silent`: its event loop does not answer. `crash_loop`: it exits again and again.'),
  message: reportedText(2000, 0).optional().describe('How the agent last exited, as text for people.'),
  updates: z
    .array(UpdateStatus)
    .max(20)
    .describe('Phases that the agent could not report, in the order in which they happened.'),
});
export type WatchdogReport = z.infer<typeof WatchdogReport>;
