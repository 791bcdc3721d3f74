/** Why a request did not succeed, in words that say nothing about the network behind the server. */
const SENTENCES = {
  url_refused:
    'This URL is not allowed: it must begin with https://, without user name or password, on port 443 or a usual port above 1023.',
  // One sentence for a name that does not exist, an address that is refused and a port that is closed, because their
  // difference would be a map of the inner network.
  unreachable: 'The server at this URL could not be reached.',
  insecure: 'No secure connection to the server at this URL could be made; its certificate may not be valid.',
  timed_out: 'The server at this URL did not answer in time.',
  redirected: 'The server at this URL redirects to another address, which is not followed.',
  too_large: 'The server at this URL sent a larger answer than expected.',
  unexpected_type: 'The server at this URL sent an answer of another type than expected.',
  invalid_response: 'The server at this URL sent an answer that could not be read.',
} as const;

export type OutboundFailure = keyof typeof SENTENCES;

/**
 * A guarded request failed. Message and reason may be shown to a tenant. The error has no cause on purpose: what the
 * network said is in the log only.
 */
export class OutboundError extends Error {
  readonly reason: OutboundFailure;

  constructor(reason: OutboundFailure) {
    super(SENTENCES[reason]);
    this.name = 'OutboundError';
    this.reason = reason;
  }
}
