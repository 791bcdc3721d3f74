/**
 * What Swagger UI lacks on the page of the reference: names of its controls for readers of screens, colours that can be
 * read, and a search that looks at paths and summaries. Runs in the browser.
 */
export const REFERENCE_HELP = `
const searchesRoutes = { fn: { opsFilter(groups, phrase) {
  const wanted = phrase.trim().toLowerCase();
  return groups
    .map((group, name) => name.toLowerCase().includes(wanted) ? group : group.update('operations', (all) => all.filter((one) =>
      (one.get('method') + ' ' + one.get('path') + ' ' + one.getIn(['operation', 'summary'], '')).toLowerCase().includes(wanted))))
    .filter((group) => group.get('operations').size > 0);
} } };
const NAMES = {
  '#servers': 'Address of the interface',
  'input.operation-filter-input': 'Search routes by path or summary',
  'select.content-type': 'Type of the body',
  '.body-param__text': 'Body of the request',
};
function giveNames() {
  for (const [selector, name] of Object.entries(NAMES)) {
    for (const control of document.querySelectorAll(selector)) {
      if (!control.hasAttribute('aria-label')) control.setAttribute('aria-label', name);
    }
  }
  for (const control of document.querySelectorAll('.parameters input, .parameters select, .parameters textarea')) {
    const name = control.closest('tr')?.getAttribute('data-param-name');
    if (name !== null && !control.hasAttribute('aria-label')) control.setAttribute('aria-label', name ?? 'Value');
  }
  // A link within a button: the button opens the same.
  for (const link of document.querySelectorAll('.opblock-summary-control a[href]')) link.removeAttribute('href');
  for (const filter of document.querySelectorAll('input.operation-filter-input')) {
    filter.placeholder = 'Search routes by path or summary';
  }
}
new MutationObserver(giveNames).observe(document.getElementById('reference'), { childList: true, subtree: true });
`;

/** Above 4.5:1 against what is behind. */
export const REFERENCE_STYLE = `
.swagger-ui .info .title small{background:#4a5160}.swagger-ui .info .title small.version-stamp{background:#3f6200}
.swagger-ui .info .title small pre,.swagger-ui .info .title small.version-stamp pre{color:#fff}
.swagger-ui a.nostyle,.swagger-ui .info a,.swagger-ui .info .url{color:#1f5fa8}
.swagger-ui .btn.authorize,.swagger-ui .btn.authorize span{color:#1b6b45;border-color:#1b6b45}.swagger-ui .btn.authorize svg{fill:#1b6b45}
.swagger-ui .opblock .opblock-summary-method{text-shadow:none;color:#fff}
.swagger-ui .opblock.opblock-get .opblock-summary-method{background:#1f5fa8}.swagger-ui .opblock.opblock-post .opblock-summary-method{background:#1b6b45}
.swagger-ui .opblock.opblock-put .opblock-summary-method{background:#8a4b00}.swagger-ui .opblock.opblock-patch .opblock-summary-method{background:#0f6b66}
.swagger-ui .opblock.opblock-delete .opblock-summary-method{background:#b3261e}
.swagger-ui .opblock .opblock-summary-description,.swagger-ui .opblock-tag small,.swagger-ui .parameter__type,.swagger-ui .prop-format{color:#3b4151}
.swagger-ui .parameter__name.required span,.swagger-ui .parameter__name.required:after{color:#b3261e}
.swagger-ui .response-control-media-type--accept-controller select{border-color:#1b6b45}.swagger-ui .response-control-media-type__accept-message{color:#1b6b45}
.swagger-ui .opblock-tag-section h3{margin:0}
.swagger-ui .microlight span[style*='211, 99, 99'],.swagger-ui .highlight-code span[style*='211, 99, 99']{color:#ff9d9d!important}
.swagger-ui .filter .operation-filter-input{border-color:#8a929e}
`;
