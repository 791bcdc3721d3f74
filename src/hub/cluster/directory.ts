/** Who holds which device, across nodes. */
export interface Holder {
  nodeId: string;
  epoch: number;
}

export interface Directory {
  /** The newest claim wins; the answer names the holder it takes the device from. Epochs only grow. */
  claim(deviceId: string, nodeId: string): Promise<{ epoch: number; previous: Holder | undefined }>;
  /** Gives the device up, if the claim is still the one of this epoch. */
  release(deviceId: string, epoch: number): Promise<void>;
  /** The database has seen this epoch: every claim from now on gets a greater one. */
  epochSeen(epoch: number): void;
  find(deviceId: string): Promise<Holder | undefined>;
}

/** Within one process: the default without Redis. */
export class InProcessDirectory implements Directory {
  readonly #holders = new Map<string, Holder>();
  // What was stored before decides, not the clock, which may have been wrong when it was stored.
  #lastEpoch = 0;

  async claim(deviceId: string, nodeId: string) {
    const previous = this.#holders.get(deviceId);
    const epoch = (this.#lastEpoch = Math.max(this.#lastEpoch + 1, Date.now()));
    this.#holders.set(deviceId, { nodeId, epoch });
    return { epoch, previous };
  }

  async release(deviceId: string, epoch: number) {
    if (this.#holders.get(deviceId)?.epoch === epoch) this.#holders.delete(deviceId);
  }

  epochSeen(epoch: number) {
    this.#lastEpoch = Math.max(this.#lastEpoch, epoch);
  }

  async find(deviceId: string) {
    return this.#holders.get(deviceId);
  }
}
