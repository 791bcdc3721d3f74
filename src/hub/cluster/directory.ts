import { clock } from '../../clock.ts';

/** The node that owns a device. */
export interface Owner {
  nodeId: string;
  epoch: number;
}

/** Records which node owns which device. */
export interface Directory {
  /** The newest claim wins. Returns its epoch, which is greater than all before, and the owner that it replaces. */
  claim(deviceId: string, nodeId: string): Promise<{ epoch: number; previous: Owner | undefined }>;
  /** Ends the claim if it still has this epoch. */
  release(deviceId: string, epoch: number): Promise<void>;
  /** Makes every later claim greater than an epoch that was found in the database. */
  epochSeen(epoch: number): void;
  find(deviceId: string): Promise<Owner | undefined>;
}

/** The directory of a single process. */
export class InProcessDirectory implements Directory {
  readonly #owners = new Map<string, Owner>();
  // The stored epochs count, not the clock, which may have been wrong when they were stored.
  #lastEpoch = 0;

  async claim(deviceId: string, nodeId: string) {
    const previous = this.#owners.get(deviceId);
    const epoch = (this.#lastEpoch = Math.max(this.#lastEpoch + 1, clock.now()));
    this.#owners.set(deviceId, { nodeId, epoch });
    return { epoch, previous };
  }

  async release(deviceId: string, epoch: number) {
    if (this.#owners.get(deviceId)?.epoch === epoch) this.#owners.delete(deviceId);
  }

  epochSeen(epoch: number) {
    this.#lastEpoch = Math.max(this.#lastEpoch, epoch);
  }

  async find(deviceId: string) {
    return this.#owners.get(deviceId);
  }
}

/** Whether this node reaches the other nodes. While it does not, what it knows of their devices grows old. */
export interface Reach {
  isWhole(): boolean;
  onChange(callback: (isWhole: boolean) => void): void;
}
