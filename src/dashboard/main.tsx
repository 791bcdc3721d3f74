import '@mantine/core/styles.css';
import '@mantine/notifications/styles.css';
import '@mantine/spotlight/styles.css';
import './app/app.css';
import { createRoot } from 'react-dom/client';
import { App } from './app/app.tsx';
import { keepFocus } from './app/keep-focus.ts';
import { openSession } from './session/index.ts';

const place = document.getElementById('app');
if (place === null) throw new Error('index.html has no element with the id "app".');
// After an update of the server, a page that was open asks for parts that are gone: it is loaded again, once a minute at most.
const RELOADED = 'muster-reloaded';
window.addEventListener('vite:preloadError', () => {
  const last = Number(window.sessionStorage.getItem(RELOADED) ?? 0);
  if (Date.now() - last < 60_000) return;
  window.sessionStorage.setItem(RELOADED, String(Date.now()));
  window.location.reload();
});
keepFocus();
void openSession();
createRoot(place).render(<App />);
