import type { Promotion } from '../../features/releases/operator.ts';
import type { CommandIo } from '../io.ts';

export function printPromotion({ stdout }: CommandIo, { promoted, demoted }: Promotion): void {
  for (const { component, os, architecture, version } of promoted) {
    const before = demoted.find(
      (one) => one.component === component && one.os === os && one.architecture === architecture,
    );
    const instead = before === undefined ? '' : ` instead of ${before.version}`;
    stdout.write(`${component} for ${os} ${architecture}: devices upgrade to ${version}${instead}.\n`);
  }
}
