/** The most addresses of one device between two writes. */
const ADDRESSES_MAX = 20;

/** By device, the addresses of presence records that were replaced before they were written. */
export class UnwrittenAddresses extends Map<string, string[]> {
  /** A record of the device has replaced one that was not written. */
  replaced(deviceId: string, earlier: string | null, later: string | null): void {
    if (earlier === null || later === null || earlier === later) return;
    const known = this.get(deviceId);
    if (known === undefined) this.set(deviceId, [earlier]);
    else if (known.length < ADDRESSES_MAX) known.push(earlier);
  }

  /** Adds addresses of a failed write before those that have come since. */
  putBack(deviceId: string, addresses: readonly string[]): void {
    this.set(deviceId, [...addresses, ...(this.get(deviceId) ?? [])].slice(0, ADDRESSES_MAX));
  }
}
