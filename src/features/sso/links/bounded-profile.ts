import { AnyJsonInput } from '../../../platform/http/fields.ts';

/** The maximum length of the stored profile as JSON, in characters. */
const PROFILE_MAX = 16_384;

/**
 * Selects the claims to be stored: in the order of the provider, as many as fit. Claims that the database cannot store,
 * or that are nested too deeply, are left out.
 */
export function boundedProfile(profile: Readonly<Record<string, unknown>>): Record<string, unknown> {
  let left = PROFILE_MAX;
  const kept: [string, unknown][] = [];
  for (const [name, value] of Object.entries(profile)) {
    if (!AnyJsonInput.safeParse({ [name]: value }).success) continue;
    const size = JSON.stringify({ [name]: value }).length;
    if (size > left) continue;
    left -= size;
    kept.push([name, value]);
  }
  return Object.fromEntries(kept);
}
