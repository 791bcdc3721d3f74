import { z } from 'zod';

/** What a file of a release is for: a component, on an operating system and a processor. */

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
 * What a file is for, by the name that `npm run build:agent` gives it, such as `muster-agent-linux-x64.cjs`; `undefined`
 * for any other name.
 */
export const releaseTargetOf = (fileName: string): ReleaseTarget | undefined =>
  ReleaseTarget.safeParse(FILE_NAME.exec(fileName)?.groups).data;
