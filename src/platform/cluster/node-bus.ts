/** Messages between server processes (nodes): one channel each. What is sent is plain JSON. */
export interface NodeBus<M> {
  readonly nodeId: string;
  /** Hands a message to a node. False when no such node is there, which is known at once. */
  send(to: string, message: M): Promise<boolean>;
  /** To every other node. */
  broadcast(message: M): Promise<void>;
  onMessage(handler: (from: string, message: M) => void): void;
  /** Called when a node is gone, so that no query waits for its answers. */
  onNodeLost(handler: (nodeId: string) => void): void;
  close(): Promise<void>;
}

interface Member<M> {
  receive: ((from: string, message: M) => void)[];
  lost: ((nodeId: string) => void)[];
}

/** Nodes within one process: the default without Redis, and three hubs side by side in a test. */
export class InProcessCluster<M> {
  readonly #members = new Map<string, Member<M>>();

  join(nodeId: string): NodeBus<M> {
    const members = this.#members;
    const own: Member<M> = { receive: [], lost: [] };
    members.set(nodeId, own);
    const deliver = (to: Member<M>, message: M) => {
      // As over a network: a copy, and never within the sender's turn.
      const copy = structuredClone(message);
      setImmediate(() => {
        for (const receive of to.receive) receive(nodeId, copy);
      });
    };
    return {
      nodeId,
      async send(to, message) {
        const member = members.get(to);
        if (member === undefined) return false;
        deliver(member, message);
        return true;
      },
      async broadcast(message) {
        for (const [id, member] of members) if (id !== nodeId) deliver(member, message);
      },
      onMessage: (handler) => void own.receive.push(handler),
      onNodeLost: (handler) => void own.lost.push(handler),
      async close() {
        if (!members.delete(nodeId)) return;
        for (const member of members.values()) for (const lost of member.lost) lost(nodeId);
      },
    };
  }
}
