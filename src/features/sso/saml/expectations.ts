/** What an answer has to agree with: ours, the provider's, and that of the sign-in. */
export interface Expectations {
  /** Our entity ID. */
  audience: string;
  acsUrl: string;
  /** The provider's entity ID. */
  issuer: string;
  requestId: string;
  now: Date;
}

/** How far the clocks of two servers may be apart. */
export const CLOCK_SKEW_MS = 60_000;
/** As long as a sign-in may take (SPEC 2.13): an older assertion does not answer it. */
export const MAX_ASSERTION_AGE_MS = 600_000;
