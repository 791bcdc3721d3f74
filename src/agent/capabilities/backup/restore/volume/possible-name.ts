/** Names of files on Linux that other systems take for something else. */

const WINDOWS_NAMES = /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i;

/** Why a file cannot have a name on this machine. On Linux each name that a file system holds is one. */
export function whyNotHere(name: Buffer, platform: NodeJS.Platform = process.platform): string | undefined {
  if (platform === 'linux') return undefined;
  const text = name.toString('utf8');
  // Windows and macOS keep names as characters.
  if (!Buffer.from(text).equals(name)) return 'its name is not valid UTF-8, which this system needs';
  if (platform !== 'win32') return undefined;
  // oxlint-disable-next-line no-control-regex -- these are what Windows refuses
  const isPossible = !/[<>:"/\\|?*\u0000-\u001f]|[. ]$/.test(text) && !WINDOWS_NAMES.test(text);
  return isPossible ? undefined : 'Windows allows no such name';
}
