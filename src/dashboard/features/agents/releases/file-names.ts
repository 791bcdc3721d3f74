/** The files of a release as `npm run build:agent` and GitHub name them: `muster-agent-linux-x64.cjs`. Pure. */

export interface ReleaseTarget {
  component: 'agent' | 'watchdog' | 'helper' | 'backup';
  os: 'linux' | 'windows' | 'macos';
  architecture: 'x64' | 'arm64';
}

const NAME =
  /^muster-(?<component>agent|watchdog|helper|backup)-(?<os>linux|windows|macos)-(?<architecture>x64|arm64)(?:\.(?:cjs|exe))?$/;

/** What a file is for; `undefined` where its name does not say it. */
export function targetOf(fileName: string): ReleaseTarget | undefined {
  const named = NAME.exec(fileName)?.groups;
  // The groups of the pattern are the values of the fields.
  return named === undefined ? undefined : (named as unknown as ReleaseTarget);
}
