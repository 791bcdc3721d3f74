import type { RecoveryCheck, RecoveryScript } from '../../../api/index.ts';

/** "Port 5432 answers", "https on port 443 answers at /health". */
export function checkText(check: RecoveryCheck, script: RecoveryScript | undefined): string {
  if (check.type === 'script') return `Script ${script?.scriptName ?? 'that was deleted'}`;
  const at = check.host === undefined ? '' : ` of ${check.host}`;
  if (check.type === 'tcp') return `Port ${check.port}${at} answers`;
  const status = check.expectStatus === undefined ? '' : ` with ${check.expectStatus}`;
  return `${check.secure ? 'https' : 'http'} on port ${check.port}${at} answers at ${check.path}${status}`;
}
