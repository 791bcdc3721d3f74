/** The values that a response must contain: those of Muster, of the provider and of the sign-in. */
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
/** The time that a sign-in may take (SPEC 2.13). An older assertion cannot belong to it. */
export const MAX_ASSERTION_AGE_MS = 600_000;
