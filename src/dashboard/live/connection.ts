import { useEffect, useSyncExternalStore } from 'react';
import { type ConnectionState, hub, loadSocket } from './socket.ts';

/** The state of the connection, for the pill in the header and for pages that show how old their data is. */
export function useConnection(): ConnectionState {
  return useSyncExternalStore(hub.watch, () => hub.state);
}

/** Fetches the live part while the page still asks who is there. */
export function useHubSoon(): void {
  useEffect(() => {
    // Where this fails, the connection tries again.
    loadSocket().catch(() => undefined);
  }, []);
}

/** Keeps the connection open while the frame of the signed-in person is shown. */
export function useHubConnection(): void {
  useEffect(() => {
    void hub.start();
    return () => hub.stop();
  }, []);
}

/**
 * Calls back when a connection that was lost is there again.
 * @param onReturn  the same function at each rendering
 */
export function useReturnOfConnection(onReturn: () => void): void {
  useEffect(() => {
    let isLost = false;
    return hub.watch(() => {
      const { state } = hub;
      if (state.state === 'connecting' && state.since !== undefined) isLost = true;
      if (state.state !== 'live' || !isLost) return;
      isLost = false;
      onReturn();
    });
  }, [onReturn]);
}
