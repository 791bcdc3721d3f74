/** Of one device, between two writes. */
const ADDRESSES_MAX = 20;

/** By device, where it came from by records that were replaced before they were written. */
export class PassedAddresses extends Map<string, string[]> {
  /** A record of the device takes the place of another that was not written. */
  replaced(deviceId: string, earlier: string | null, later: string | null): void {
    if (earlier === null || later === null || earlier === later) return;
    const known = this.get(deviceId);
    if (known === undefined) this.set(deviceId, [earlier]);
    else if (known.length < ADDRESSES_MAX) known.push(earlier);
  }

  /** What could not be written comes before what has come since. */
  putBack(deviceId: string, addresses: readonly string[]): void {
    this.set(deviceId, [...addresses, ...(this.get(deviceId) ?? [])].slice(0, ADDRESSES_MAX));
  }
}
