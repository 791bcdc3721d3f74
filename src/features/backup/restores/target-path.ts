/** Whether data can be restored to a path. What lies there, and whether it is safe, the device finds out. */

interface Rule {
  isRight(path: string): boolean;
  message: string;
}

const namesOf = (path: string, separator: RegExp) => path.split(separator).filter((name) => name !== '');
const leadsUp = (names: readonly string[]) => names.some((name) => name === '..' || name === '.');

const UNIX: Rule = {
  isRight(path) {
    const names = namesOf(path, /\//);
    return path.startsWith('/') && names.length > 0 && !leadsUp(names) && !/[\r\n]/.test(path);
  },
  message: 'must be an absolute path such as /srv/restored, without . and .., and not the root',
};

const WINDOWS: Rule = {
  isRight(path) {
    const names = namesOf(path.slice(2), /[\\/]/);
    return (
      /^[A-Za-z]:[\\/]/.test(path) &&
      names.length > 0 &&
      !leadsUp(names) &&
      !/[<>:"|?*\r\n]/.test(path.slice(2))
    );
  },
  message: String.raw`must be an absolute path such as C:\Restored, without . and .., and not the root of a drive`,
};

/** The rule that a path breaks on a device of this kind; `undefined` where it breaks none. */
export function brokenRule(osType: 'windows' | 'macos' | 'linux', path: string): string | undefined {
  const rule = osType === 'windows' ? WINDOWS : UNIX;
  return rule.isRight(path) ? undefined : rule.message;
}
