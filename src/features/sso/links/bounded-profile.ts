import { AnyJsonInput } from '../../../platform/http/fields.ts';

/** Characters of the stored profile as JSON. */
const PROFILE_MAX = 16_384;

/**
 * What is stored of the claims that an identity provider has sent: in their order, as many as fit. Claims that the
 * database could not store, or that are nested without end, are left out.
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
